"""Many runs side by side: what each needed, what changed against a base, how it scales; of the ranks of one job who stands out.

================  =================================================================================================
``templates``     paths with fields in them, found in the file system
``naming``        logs whose paths are those of the ranks of one job, and what to call them
``figures``       the metrics, and a run with its figures
``runs``          logs read down to these few figures, by several processes, and a few ranks once more
``layout``        which fields are rows, which are columns, and what is compared with what
``scaling``       how a figure grows with a field that is a number
``outliers``      the rule by which a rank stands out among its peers
``ranks``         the ranks of one job judged together; ``first`` which failed first
``result``        what a comparison gives; ``verdict`` and ``rank_verdict`` say what it comes to
``run``           all of it: ``memlens.compare``
================  =================================================================================================
"""
