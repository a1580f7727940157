"""Numbers computed from a passage (DROP). Z: equations that give the answer; f(z): their value."""
