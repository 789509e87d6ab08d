"""What code that runs here may use and leave behind."""

from pydantic import BaseModel, ConfigDict, Field

_MB = 1_000_000


class CodeLimits(BaseModel):
    """Bounds of one execution, in bytes unless it says otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory: int = Field(default=1024 * _MB, gt=0)
    """Address space of a process, or memory of a container."""
    file_size: int = Field(default=32 * _MB, gt=0)
    """Of any file the code writes, and of its standard output and standard error."""
    output: int = Field(default=20_000, gt=0)
    """Of standard output, and the same again of standard error; the rest is cut off."""
    output_files: int = Field(default=20, ge=0)
    """Number of files that are kept."""
    output_files_size: int = Field(default=16 * _MB, ge=0)
    """Of all files that are kept together; those that do not fit any more are left out."""
