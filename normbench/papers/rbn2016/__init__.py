"""The artifacts of Recurrent Batch Normalization (Cooijmans, Ballas, Laurent, Gülçehre, Courville 2016)."""
