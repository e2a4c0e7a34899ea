"""A public key of SSH whose other half nobody has."""

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICQAbztw9xIJhw10YoeUOXfkrU8/v/kPbE3vidVyzpCe"
