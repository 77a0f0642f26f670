"""Tables, panels of curves, and how they look: no claim and no paper is known here."""
