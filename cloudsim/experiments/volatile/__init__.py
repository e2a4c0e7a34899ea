"""The experiments of P3: volatile resources, disclosure and targeting."""
