"""Word vectors by gensim, for `word_vectors.py`; run by an interpreter that has it.

python gensim_vectors.py TOKENS OUT SETTINGS trains on a text of words with spaces between them, writes OUT in
word2vec's binary format and prints, as JSON, effective words per second and microseconds of CPU for each.
"""

import json
import logging
import re
import sys
import time

from gensim.models import Word2Vec
from gensim.models.word2vec import LineSentence

EFFECTIVE = re.compile(r'training on \d+ raw words \((\d+) effective words\) took')


class Words(logging.Handler):
    """Counts the effective words that gensim reports at the end."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if 'EPOCH' not in text and (found := EFFECTIVE.search(text)):
            self.count = int(found[1])


def main(tokens: str, out: str, settings: dict) -> None:
    words, log = Words(), logging.getLogger('gensim')
    log.addHandler(words)
    log.setLevel(logging.INFO)
    model = Word2Vec(**settings)
    model.build_vocab(LineSentence(tokens))
    began, cpu = time.perf_counter(), time.process_time()
    model.train(
        LineSentence(tokens),
        total_examples=model.corpus_count,
        total_words=model.corpus_total_words,
        epochs=settings['epochs'],
    )
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    model.wv.save_word2vec_format(out, binary=True)
    speed = {'words_per_second': round(words.count / seconds), 'cpu_microseconds': round(1e6 * cpu / words.count, 2)}
    print(json.dumps(speed))


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
