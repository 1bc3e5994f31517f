"""Laws of motion in what is said of bodies that fall."""
