"""Runs a measurement as a job of Azure Machine Learning: resources, job, records, and the end of what costs money."""
