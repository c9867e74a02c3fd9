"""Graph classification."""

from jbpool import _environment

_environment.require_dgl()      # before anything imports dgl, for a readable error
