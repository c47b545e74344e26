"""Word vectors by gensim, for `word_vectors.py`; run by an interpreter that has it.

python gensim_vectors.py TOKENS OUT SETTINGS trains on a text of words with spaces between them, writes OUT in
word2vec's binary format and prints, as JSON, effective words per second and microseconds of CPU for each.
"""

import json
import sys
import time

from gensim.models import Word2Vec
from gensim.models.word2vec import LineSentence


def main(tokens: str, out: str, settings: dict) -> None:
    model = Word2Vec(**settings)
    model.build_vocab(LineSentence(tokens))
    began, cpu = time.perf_counter(), time.process_time()
    words, _ = model.train(
        LineSentence(tokens),
        total_examples=model.corpus_count,
        total_words=model.corpus_total_words,
        epochs=settings['epochs'],
    )
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    model.wv.save_word2vec_format(out, binary=True)
    speed = {'words_per_second': round(words / seconds), 'cpu_microseconds': round(1e6 * cpu / words, 2)}
    print(json.dumps(speed))


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
