"""The mathematics: Machine, Work, Program, Observation and the roofline that relates them, from plain values alone.

Standard library and numpy; nothing here reads the environment, asks a clock or prints.
"""
