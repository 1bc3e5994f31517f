"""What families of networks share: specs, recurrent networks, Mambas."""
