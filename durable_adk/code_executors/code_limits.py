"""Resource and output limits of locally run code."""

from pydantic import BaseModel, ConfigDict, Field

_MB = 1_000_000


class CodeLimits(BaseModel):
    """Limits of one execution, in bytes unless stated otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory: int = Field(default=1024 * _MB, gt=0)
    """Address space of a process, or memory of a container."""
    file_size: int = Field(default=32 * _MB, gt=0)
    """Size of any file that the code writes, including standard output and standard error."""
    output: int = Field(default=20_000, gt=0)
    """Bytes kept of standard output, and as many of standard error; the rest is cut off."""
    output_files: int = Field(default=20, ge=0)
    """Maximum number of output files."""
    output_files_size: int = Field(default=16 * _MB, ge=0)
    """Total size of the output files; files beyond it are left out."""
