"""Cloze questions as all sets of them have them: a document, a question with a blank, and the entity that fills it.

Word numbers: END (padding), UNKNOWN (a rarer word), BLANK (of the question), then the entities from ENTITY on, then the
words, most frequent first. Which entity has which number says nothing.
"""

from __future__ import annotations

END, UNKNOWN, BLANK, ENTITY = range(4)
