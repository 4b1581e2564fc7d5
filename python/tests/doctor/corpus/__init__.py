"""Logs to judge the doctor by: faulty ones in the words of the field, healthy ones of many versions, in many shapes."""
