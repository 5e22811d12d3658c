"""Certificates, uploaded and managed."""
