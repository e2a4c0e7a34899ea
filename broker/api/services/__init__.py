"""What the routes call: each service answers one kind of question, without HTTP."""
