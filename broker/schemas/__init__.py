"""Bodies of the HTTP API that are not messages of the contract; the server and the client share them."""
