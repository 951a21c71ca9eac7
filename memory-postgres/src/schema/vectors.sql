-- Vectors in pgvector's own type, once it is installed: comparing them costs a third of what comparing arrays does.
ALTER TABLE @schema@.vector ALTER COLUMN embedding TYPE @vector@.vector USING embedding::@vector@.vector;
ALTER TABLE @schema@.vector ALTER COLUMN embedding SET STORAGE EXTERNAL;
