"""What a run looks like: curves, and a page that tells all about it."""

from bertkit.rooms import public

__all__, __getattr__ = public(
    __name__,
    {
        "comparison": "write_comparison",
        "curves": "COLOURS draw_curves short_count svg_panels",
        "elements": "element table_of",
        "fit_page": "report_files",
        "fit_pictures": "draw_confusion draw_numbers",
        "fonts": "can_be_drawn fonts_for",
        "history": "History",
        "page": "write_report",
        "standings": "bits_per_byte cells_of remarks results standing",
    },
)
