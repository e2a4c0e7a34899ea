"""Signs the messages that the processes of a federation send each other, and verifies them.

- ``parties``: the names under which processes sign.
- ``key_files``: the files that hold a party's private key and everybody's public keys.
- ``signer``: ``MessageSigner`` makes and checks the signature that travels beside a message.
- ``replay_window``: ``ReplayWindow`` tells a repeated message from a new one.
"""
