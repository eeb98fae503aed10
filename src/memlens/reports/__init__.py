"""Reports: results in, text out.  One module a form of output; none of them computes a figure or opens a file.

===============  ===========================================================================================
``screens``      what an analysis shows to people, as blocks
``lists``        what is live at a peak, what is held, what piles up
``trust_lines``  whether to trust a log
``generic``      results of other packages, by the names of their fields
``tables``       the columns of its tables, and their order
``terminal``     blocks as text for a terminal, a pipe, a file
``markdown``     blocks as GitHub Markdown
``json_report``  the analysis by the contract ``memlens.analyze/1``
``csv_report``   a row a window
``text``         log text made harmless, figures written out
===============  ===========================================================================================
"""
