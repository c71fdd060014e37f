//! Who is who and who is connected: ids, business cards, the table of channels and the handshake that opens or resumes one.
