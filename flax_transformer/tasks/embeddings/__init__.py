"""Word vectors: word2vec (Mikolov et al. 2013) and GloVe (Pennington et al. 2014)."""
