//! A process killed at any moment has lost nothing that it acknowledged, and left nothing half-written.
