"""Export and import: loremesh's own format, other systems' files, Markdown for reading."""
