"""One cloud: what it is (`spec`), its nodes (`inventory`) and every decision about them (`cloud`)."""
