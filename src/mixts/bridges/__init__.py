"""Where mixts meets other libraries; each module needs the extra of its name."""
