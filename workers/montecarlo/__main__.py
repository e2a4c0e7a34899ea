"""Start a Monte-Carlo worker: ``python -m workers.montecarlo [--name NAME]``."""

from workers.montecarlo.worker import main

if __name__ == "__main__":
    raise SystemExit(main())
