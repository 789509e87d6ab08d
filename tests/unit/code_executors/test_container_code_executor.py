"""What names a container."""

import pytest
from pydantic import ValidationError

from durable_adk.code_executors import ContainerCodeExecutor


@pytest.mark.parametrize("image", ["", "--privileged", "a b"])
def test_an_image_is_no_option(image: str) -> None:
    """What is configured as an image cannot change the command line."""
    with pytest.raises(ValidationError):
        ContainerCodeExecutor(image=image)
