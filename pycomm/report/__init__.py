"""Reports: tables, plots and timelines made from results. Each is a module; none is imported until it is used."""
