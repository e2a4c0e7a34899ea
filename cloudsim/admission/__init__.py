"""Whether a request may be promised what it asks for, and what is offered instead."""
