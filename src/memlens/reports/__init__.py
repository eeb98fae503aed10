"""Reports: results in, text out.  One module a form of output; none of them computes a figure or opens a file.

==================== ==================================================================================================
``screens``          what an analysis shows to people, as blocks
``lists``            what is live at a peak, what is held, what piles up
``diff_screens``     what a comparison shows to people, as blocks: the two runs, and a series of windows
``diff_window``      one pair of windows compared: figures, findings, the account
``diff_findings``    one finding in words, with the log lines around its place
``diff_words``       what each kind of finding is called and what it means
``compare_screens``  what a comparison of many runs shows to people, as blocks
``compare_tables``   a row a run, or a matrix of runs for each metric
``compare_findings`` how figures scale, and which ranks stand out
``compare_words``    figures of runs in cells: one unit a column, and words where there is no figure
``gate_screens``     what a verdict of the gate shows to people, as blocks
``gate_words``       a verdict and its figures in sentences
``gate_markdown``    a verdict as the comment of a pull request, never too long
``junit``            a verdict as JUnit XML
``github``           a verdict as annotations of a GitHub run
``trust_lines``      whether to trust a log
``generic``          results of other packages, by the names of their fields
``tables``           the columns of its tables, and their order
``terminal``         blocks as text for a terminal, a pipe, a file
``markdown``         blocks as GitHub Markdown
``json_report``      results by their contracts, ``memlens.analyze/2`` and so on
``csv_report``       a row a window, or a pair of windows
``text``             log text made harmless, figures written out
==================== ==================================================================================================
"""
