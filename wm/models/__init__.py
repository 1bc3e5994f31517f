"""Models, one file each; every module defines a frozen dataclass `Model`."""
