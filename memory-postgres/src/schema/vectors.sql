-- Vectors in pgvector's type, once it is installed: comparing them costs a third of comparing arrays.
ALTER TABLE @schema@.vector ALTER COLUMN embedding TYPE @vector@.vector USING embedding::@vector@.vector;
ALTER TABLE @schema@.vector ALTER COLUMN embedding SET STORAGE EXTERNAL;
