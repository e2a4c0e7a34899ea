"""The experiments of paper 002: volatile resources, disclosure and targeting."""
