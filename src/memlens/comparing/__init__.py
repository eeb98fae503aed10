"""Many runs side by side: what each needed, what changed against a base, how it scales; of the ranks of one job who stands out.

================  =================================================================================================
``templates``     paths with fields in them, found in the file system; what paths say of the ranks of a job
``layout``        which metrics are shown, which fields are rows and columns, and what is compared with what
``scaling``       how a figure grows with a field that is a number
``outliers``      the rule by which a rank stands out among its peers
``ranks``         the ranks of one job judged together, and which of them failed first
``result``        what a comparison gives; ``claims`` says what it comes to
``run``           all of it: ``memlens.compare``, of the summaries of logs (:mod:`memlens.summarizing.summary`)
================  =================================================================================================
"""
