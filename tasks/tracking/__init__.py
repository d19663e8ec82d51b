"""The only package that talks to MLflow. store.py opens runs and logs to them, reading.py finds and loads them,
connection.py opens the store. record.py has the tags of a run and is the only file that knows their names in MLflow;
handles.py defines typed handles, and artifacts.py lists the handle of every artifact; series.py logs losses while a
training runs; keys.py and fingerprint.py compute the keys by which finished runs are re-used; registry.py has
champions and the URIs of models; ui.py and views.py link into the MLflow UI. File formats live in kgcore/storage; which
artifacts a stage logs is decided in stages/ and jobs/.
"""
