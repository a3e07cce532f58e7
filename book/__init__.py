"""The pages about published data: values and tables that fill their markers. It reads tables, and
never a device.
"""
