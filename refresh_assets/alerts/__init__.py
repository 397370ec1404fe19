"""The wing that tells a person what goes wrong, and sees to it that the telling arrives."""
