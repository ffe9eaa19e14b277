"""Ask a server in a thread of its own, one question at a time."""

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Courier(Generic[Question, Answer]):
    """A thread that carries questions away and brings back answers, or why there is none.

    Args:
        ask: Asks, and may take its time.
        deliver: Gets the answer, or the exception, in that thread.
    """

    def __init__(
        self,
        ask: Callable[[Question], Answer],
        deliver: Callable[[Answer | Exception], None],
    ) -> None:
        self._ask = ask
        self._deliver = deliver
        self._questions: queue.SimpleQueue[Question] = queue.SimpleQueue()
        # A daemon: nobody waits for a server at the end.
        threading.Thread(target=self._run, name="jade-courier", daemon=True).start()

    def send(self, question: Question) -> None:
        """Send a question; the answer to it is delivered before any other."""
        self._questions.put(question)

    def _run(self) -> None:
        while True:
            question = self._questions.get()
            try:
                answer: Answer | Exception = self._ask(question)
            except Exception as error:
                answer = error
            self._deliver(answer)
