"""Operations of the durable session log; each is one transaction over a storage's tables."""
