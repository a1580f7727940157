"""``hardem``, which an installed package brings, and ``python -m hardem_jax``."""

from hardem_jax.errors import MissingPackageError


def main() -> None:
    """Runs a command of a task, or says which extra it needs."""
    try:
        from hardem_jax.cli.main import main as run
    except MissingPackageError as error:
        raise SystemExit(f"error: {error}") from None
    run()


if __name__ == "__main__":
    main()
