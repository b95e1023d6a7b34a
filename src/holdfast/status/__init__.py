"""Pure rules that compare what is applied with what nodes report: findings, what has settled, what an edge carries."""
