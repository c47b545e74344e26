"""Writes tests/fixtures/word_vectors: ten words by gensim, and what gensim answers about them. Needs gensim 4.4.

python tests/make_word_vectors_fixture.py
"""

import json
from pathlib import Path

import numpy as np
from gensim.models import KeyedVectors

FOLDER = Path(__file__).parent / 'fixtures' / 'word_vectors'
WORDS = ['the', 'man', 'woman', 'king', 'queen', 'uncle', 'aunt', 'naïve', '東京', 'u.s.', '3', 'apple']


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(5)
    matrix = (generator.standard_normal((len(WORDS), 6)) * 10.0 ** generator.integers(-3, 2, (len(WORDS), 1))).astype(
        np.float32
    )
    matrix[0, :3] = np.float32(1e-40), np.float32(3.4028235e38), -0.0  # subnormal, largest, negative zero
    matrix[0] /= [1, 1e30, 1, 1, 1, 1]
    vectors = KeyedVectors(matrix.shape[1])
    vectors.add_vectors(WORDS, matrix)
    vectors.save_word2vec_format(FOLDER / 'words.bin', binary=True)
    vectors.save_word2vec_format(FOLDER / 'words.txt')
    vectors.save_word2vec_format(FOLDER / 'glove.txt', write_header=False)
    answers = {
        'similarity': float(vectors.similarity('king', 'queen')),
        'neighbors': vectors.most_similar('king', topn=4),
        'add': vectors.most_similar(['woman', 'king'], ['man'], topn=4),
        'mul': vectors.most_similar_cosmul(['woman', 'king'], ['man'], topn=4),
        'among': vectors.most_similar(['woman', 'king'], ['man'], topn=2, restrict_vocab=7),
    }
    (FOLDER / 'gensim.json').write_text(json.dumps(answers, ensure_ascii=False, indent=2) + '\n', 'utf-8')


if __name__ == '__main__':
    main()
