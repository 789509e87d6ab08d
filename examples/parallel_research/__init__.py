"""Three researchers at the same time, and one who makes a brief of what they found."""
