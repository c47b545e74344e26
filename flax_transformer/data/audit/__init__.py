"""Corpora checked before the first step, and cleaned: the table of faults, their detectors, the report."""

from flax_transformer.data.audit.changes import changed_since
from flax_transformer.data.audit.checking import audit
from flax_transformer.data.audit.cleaning import clean
from flax_transformer.data.audit.kinds import KINDS
from flax_transformer.data.audit.report import Example, Finding, Report

__all__ = ['KINDS', 'Example', 'Finding', 'Report', 'audit', 'changed_since', 'clean']
