//! What users want to run: which EdgeDeployments and EdgeWorkloads can be sent to devices, and to which.
