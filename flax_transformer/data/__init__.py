"""From files to batches: lines, order, parallel text (`bitext`), recordings (`audio`), damage in corpora (`audit`)."""
