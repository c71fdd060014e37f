//! The ADI-level channel device: transports and the progress engine that moves the engine's bytes.
