"""`python -m proofs`: proves every lemma, and refutes its control. Exits with 1 if one fails."""

import sys

from proofs.blinding import blinding_lemmas
from proofs.keys import key_lemmas
from proofs.lemma import Lemma, Unproved, check
from proofs.noise import noise_lemmas
from proofs.spans import span_lemmas


def lemmas() -> list[Lemma]:
    """All of them."""
    return [*noise_lemmas(), *span_lemmas(), *key_lemmas(), *blinding_lemmas()]


def main() -> int:
    """Prints a line for each lemma and one for its control."""
    failed, seconds = 0, 0.0
    for lemma in lemmas():
        try:
            proved = check(lemma)
        except Unproved as wrong:
            failed += 1
            print(f"FAIL     {wrong}")
            continue
        seconds += proved.seconds
        print(f"proved   {lemma.name}: {lemma.statement}")
        print(f"refuted  {lemma.control}: {proved.counterexample}")
    count = len(lemmas())
    print(f"{count - failed} of {count} lemmas are proved, and as many controls refuted")
    print(f"{seconds:.1f} seconds of processor time")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
