"""Many runs side by side: what each needed, what changed against a base, how it scales, and which rank stands out.

===============  ==================================================================================================
``templates``    paths with fields in them, found in the file system
``runs``         logs read down to the few figures of each that a comparison keeps, by several processes
``layout``       which fields are rows, which are columns, and what is compared with what
``statistics``   the figures that are compared; how they grow with a field that is a number, and which ranks stand out
``result``       what a comparison gives
``run``          all of it: ``memlens.compare``
===============  ==================================================================================================
"""
