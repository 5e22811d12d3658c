"""The essay's experiment: two tiny clusters in one project of the cloud, one with a CCM and one without.

``stage`` runs both and looks at them, ``table`` says what a person sees there.
"""
