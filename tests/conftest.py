"""What holds for all tests: no property test fails because the machine was slow."""

from hypothesis import settings

settings.register_profile("konverge", parent=settings(), deadline=None)
settings.load_profile("konverge")
