#ifndef TOPO_TOPO_XML_H
#define TOPO_TOPO_XML_H

#include <stddef.h>

#include "base/status.h"

struct _xmlDoc; /* libxml2's xmlDoc */

/* Inside the module: the document in a text of `n` bytes; free with xmlFreeDoc. Errors: ST_INPUT as
 * path:line with the reason. */
MUST_CHECK enum status topo_xml_read(const char *path, const char *text, size_t n,
                                     struct _xmlDoc **out);

#endif
